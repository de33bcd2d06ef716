"""The best and the worst test images of a detector."""

from types import SimpleNamespace

from zoo.detection import evaluate, plots, shards


def test_the_best_and_the_worst_images_are_drawn(monkeypatch, tmp_path):
    f1 = {number: number / 20 for number in (3, 1, 4, 15, 9, 2, 6, 5, 14, 13, 12, 11, 10, 8)}
    annotations = {
        "images": [{"id": number, "file_name": f"{number}.jpg"} for number in f1],
        "annotations": [{"image_id": 1, "id": 7}],
    }
    found = [{"image_id": 15, "score": 0.9}, {"image_id": 1, "score": 0.8}]
    drawn = {}

    def draw(images, categories, title, path):
        drawn[path.name] = (title, list(images))

    monkeypatch.setattr(plots, "plot_detections", draw)
    monkeypatch.setattr(shards, "read_images", lambda _, ids: {number: -number for number in ids})
    detector, result = SimpleNamespace(name="d", categories={}), SimpleNamespace(by_image=f1)
    evaluate._draw(tmp_path, detector, result, found, annotations, tmp_path)
    order = sorted(f1)
    for name, numbers in (("worst", order[:12]), ("best", order[::-1][:12])):
        title, images = drawn[f"{name}.png"]
        assert title == f"d: the {name} test images"
        assert images == [
            (
                f"{number}.jpg: F1 {number / 20:.2f}",
                -number,
                [one for one in found if one["image_id"] == number],
                annotations["annotations"] if number == 1 else [],
            )
            for number in numbers
        ]


def test_ids_are_those_of_the_file():
    annotations = {
        "images": [{"id": 1, "file_id": 17}, {"id": 2}],
        "categories": [{"id": 3, "file_id": 90}],
    }
    found = [{"image_id": image, "category_id": 3, "score": 0.5} for image in (1, 2)]
    assert evaluate.with_file_ids(found, annotations) == [
        {"image_id": image, "category_id": 90, "score": 0.5} for image in (17, 2)
    ]
    other = {"image_id": 1, "category_id": 90, "score": 0.5}  # a category of the detector alone
    assert evaluate.with_file_ids([other], annotations) == []
